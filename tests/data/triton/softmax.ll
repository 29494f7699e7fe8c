; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
target triple = "amdgcn-amd-amdhsa"

@global_smem = external local_unnamed_addr addrspace(3) global [0 x i8], align 16

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare float @llvm.exp2.f32(float) #0

; Function Attrs: mustprogress nofree norecurse nounwind willreturn
define amdgpu_kernel void @softmax(ptr addrspace(1) writeonly captures(none) %0, ptr addrspace(1) readonly captures(none) %1, i32 %2, ptr addrspace(1) readnone captures(none) %3) local_unnamed_addr #1 {
  %5 = tail call i32 @llvm.amdgcn.workgroup.id.x()
  %6 = tail call i32 @llvm.amdgcn.workitem.id.x()
  %7 = and i32 %6, 63
  %8 = lshr i32 %6, 6
  %9 = and i32 %6, 255
  %10 = or disjoint i32 %9, 256
  %11 = or disjoint i32 %9, 512
  %12 = or i32 %6, 768
  %13 = icmp slt i32 %9, %2
  %14 = icmp slt i32 %10, %2
  %15 = icmp slt i32 %11, %2
  %16 = icmp slt i32 %12, %2
  %17 = mul i32 %2, %5
  %18 = sext i32 %17 to i64
  %19 = getelementptr float, ptr addrspace(1) %1, i64 %18
  %20 = zext nneg i32 %10 to i64
  %21 = getelementptr float, ptr addrspace(1) %19, i64 %20
  %22 = zext nneg i32 %11 to i64
  %23 = getelementptr float, ptr addrspace(1) %19, i64 %22
  %24 = zext nneg i32 %12 to i64
  %25 = getelementptr float, ptr addrspace(1) %19, i64 %24
  br i1 %13, label %26, label %30

26:                                               ; preds = %4
  %27 = zext nneg i32 %9 to i64
  %28 = getelementptr float, ptr addrspace(1) %19, i64 %27
  %29 = load <1 x float>, ptr addrspace(1) %28, align 4
  br label %30

30:                                               ; preds = %4, %26
  %31 = phi <1 x float> [ %29, %26 ], [ splat (float 0xFFF0000000000000), %4 ]
  %32 = extractelement <1 x float> %31, i64 0
  br i1 %14, label %33, label %35

33:                                               ; preds = %30
  %34 = load <1 x float>, ptr addrspace(1) %21, align 4
  br label %35

35:                                               ; preds = %30, %33
  %36 = phi <1 x float> [ %34, %33 ], [ splat (float 0xFFF0000000000000), %30 ]
  %37 = extractelement <1 x float> %36, i64 0
  br i1 %15, label %38, label %40

38:                                               ; preds = %35
  %39 = load <1 x float>, ptr addrspace(1) %23, align 4
  br label %40

40:                                               ; preds = %35, %38
  %41 = phi <1 x float> [ %39, %38 ], [ splat (float 0xFFF0000000000000), %35 ]
  %42 = extractelement <1 x float> %41, i64 0
  br i1 %16, label %43, label %45

43:                                               ; preds = %40
  %44 = load <1 x float>, ptr addrspace(1) %25, align 4
  br label %45

45:                                               ; preds = %40, %43
  %46 = phi <1 x float> [ %44, %43 ], [ splat (float 0xFFF0000000000000), %40 ]
  %47 = extractelement <1 x float> %46, i64 0
  %48 = tail call float @llvm.maxnum.f32(float %32, float %37)
  %49 = tail call float @llvm.maxnum.f32(float %48, float %42)
  %50 = tail call float @llvm.maxnum.f32(float %49, float %47)
  %51 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %50, i32 280, i32 15, i32 15, i1 true)
  %52 = tail call float @llvm.maxnum.f32(float %50, float %51)
  %53 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %52, i32 276, i32 15, i32 15, i1 true)
  %54 = tail call float @llvm.maxnum.f32(float %52, float %53)
  %55 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %54, i32 274, i32 15, i32 15, i1 true)
  %56 = tail call float @llvm.maxnum.f32(float %54, float %55)
  %57 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %56, i32 273, i32 15, i32 15, i1 true)
  %58 = tail call float @llvm.maxnum.f32(float %56, float %57)
  %59 = tail call float @llvm.amdgcn.update.dpp.f32(float %58, float %58, i32 322, i32 10, i32 15, i1 true)
  %60 = tail call float @llvm.maxnum.f32(float %58, float %59)
  %61 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %60, i32 323, i32 15, i32 15, i1 true)
  %62 = tail call float @llvm.maxnum.f32(float %60, float %61)
  %63 = tail call float @llvm.amdgcn.readlane.f32(float %62, i32 63)
  %64 = and i32 %8, 3
  %65 = icmp eq i32 %7, 0
  %66 = getelementptr float, ptr addrspace(3) @global_smem, i32 %64
  br i1 %65, label %67, label %68

67:                                               ; preds = %45
  store float %63, ptr addrspace(3) %66, align 4
  br label %68

68:                                               ; preds = %67, %45
  fence syncscope("workgroup") release
  tail call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %69 = icmp samesign ult i32 %6, 4
  %70 = getelementptr float, ptr addrspace(3) @global_smem, i32 %6
  br i1 %69, label %71, label %73

71:                                               ; preds = %68
  %72 = load float, ptr addrspace(3) %70, align 4
  br label %73

73:                                               ; preds = %68, %71
  %74 = phi float [ %72, %71 ], [ 0.000000e+00, %68 ]
  %75 = bitcast float %74 to i32
  %76 = tail call i32 @llvm.amdgcn.update.dpp.i32(i32 %75, i32 %75, i32 78, i32 15, i32 15, i1 false)
  %77 = bitcast i32 %76 to float
  %78 = tail call float @llvm.maxnum.f32(float %74, float %77)
  %79 = bitcast float %78 to i32
  %80 = tail call i32 @llvm.amdgcn.update.dpp.i32(i32 %79, i32 %79, i32 177, i32 15, i32 15, i1 false)
  %81 = icmp eq i32 %6, 0
  br i1 %81, label %82, label %85

82:                                               ; preds = %73
  %83 = bitcast i32 %80 to float
  %84 = tail call float @llvm.maxnum.f32(float %78, float %83)
  store float %84, ptr addrspace(3) %70, align 4
  br label %85

85:                                               ; preds = %82, %73
  fence syncscope("workgroup") release
  tail call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %86 = load float, ptr addrspace(3) @global_smem, align 16
  %87 = fsub float %32, %86
  %88 = fsub float %37, %86
  %89 = fsub float %42, %86
  %90 = fsub float %47, %86
  %91 = fmul float %87, 0x3FF7154760000000
  %92 = tail call float @llvm.exp2.f32(float %91)
  %93 = fmul float %88, 0x3FF7154760000000
  %94 = tail call float @llvm.exp2.f32(float %93)
  %95 = fmul float %89, 0x3FF7154760000000
  %96 = tail call float @llvm.exp2.f32(float %95)
  %97 = fmul float %90, 0x3FF7154760000000
  %98 = tail call float @llvm.exp2.f32(float %97)
  %99 = getelementptr float, ptr addrspace(1) %0, i64 %18
  %100 = zext nneg i32 %9 to i64
  %101 = getelementptr float, ptr addrspace(1) %99, i64 %100
  %102 = getelementptr float, ptr addrspace(1) %99, i64 %20
  %103 = getelementptr float, ptr addrspace(1) %99, i64 %22
  %104 = getelementptr float, ptr addrspace(1) %99, i64 %24
  fence syncscope("workgroup") release
  tail call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %105 = fadd float %92, %94
  %106 = fadd float %96, %105
  %107 = fadd float %98, %106
  %108 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %107, i32 280, i32 15, i32 15, i1 true)
  %109 = fadd float %108, %107
  %110 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %109, i32 276, i32 15, i32 15, i1 true)
  %111 = fadd float %110, %109
  %112 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %111, i32 274, i32 15, i32 15, i1 true)
  %113 = fadd float %112, %111
  %114 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %113, i32 273, i32 15, i32 15, i1 true)
  %115 = fadd float %114, %113
  %116 = tail call float @llvm.amdgcn.update.dpp.f32(float %115, float %115, i32 322, i32 10, i32 15, i1 true)
  %117 = fadd float %116, %115
  %118 = tail call float @llvm.amdgcn.update.dpp.f32(float poison, float %117, i32 323, i32 15, i32 15, i1 true)
  %119 = fadd float %118, %117
  %120 = tail call float @llvm.amdgcn.readlane.f32(float %119, i32 63)
  br i1 %65, label %121, label %122

121:                                              ; preds = %85
  store float %120, ptr addrspace(3) %66, align 4
  br label %122

122:                                              ; preds = %121, %85
  fence syncscope("workgroup") release
  tail call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br i1 %69, label %123, label %125

123:                                              ; preds = %122
  %124 = load float, ptr addrspace(3) %70, align 4
  br label %125

125:                                              ; preds = %122, %123
  %126 = phi float [ %124, %123 ], [ 0.000000e+00, %122 ]
  %127 = bitcast float %126 to i32
  %128 = tail call i32 @llvm.amdgcn.update.dpp.i32(i32 %127, i32 %127, i32 78, i32 15, i32 15, i1 false)
  %129 = bitcast i32 %128 to float
  %130 = fadd float %126, %129
  %131 = bitcast float %130 to i32
  %132 = tail call i32 @llvm.amdgcn.update.dpp.i32(i32 %131, i32 %131, i32 177, i32 15, i32 15, i1 false)
  br i1 %81, label %133, label %136

133:                                              ; preds = %125
  %134 = bitcast i32 %132 to float
  %135 = fadd float %130, %134
  store float %135, ptr addrspace(3) %70, align 4
  br label %136

136:                                              ; preds = %133, %125
  fence syncscope("workgroup") release
  tail call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %137 = load float, ptr addrspace(3) @global_smem, align 16
  %138 = fdiv float %94, %137
  %139 = fdiv float %96, %137
  %140 = fdiv float %98, %137
  br i1 %13, label %141, label %144

141:                                              ; preds = %136
  %142 = fdiv float %92, %137
  %143 = insertelement <1 x float> poison, float %142, i64 0
  store <1 x float> %143, ptr addrspace(1) %101, align 4
  br label %144

144:                                              ; preds = %141, %136
  br i1 %14, label %145, label %147

145:                                              ; preds = %144
  %146 = insertelement <1 x float> poison, float %138, i64 0
  store <1 x float> %146, ptr addrspace(1) %102, align 4
  br label %147

147:                                              ; preds = %145, %144
  br i1 %15, label %148, label %150

148:                                              ; preds = %147
  %149 = insertelement <1 x float> poison, float %139, i64 0
  store <1 x float> %149, ptr addrspace(1) %103, align 4
  br label %150

150:                                              ; preds = %148, %147
  br i1 %16, label %151, label %153

151:                                              ; preds = %150
  %152 = insertelement <1 x float> poison, float %140, i64 0
  store <1 x float> %152, ptr addrspace(1) %104, align 4
  br label %153

153:                                              ; preds = %151, %150
  ret void
}

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef i32 @llvm.amdgcn.workgroup.id.x() #0

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.amdgcn.workitem.id.x() #0

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare float @llvm.maxnum.f32(float, float) #0

; Function Attrs: convergent mustprogress nocallback nofree nounwind willreturn memory(none)
declare float @llvm.amdgcn.update.dpp.f32(float, float, i32 immarg, i32 immarg, i32 immarg, i1 immarg) #2

; Function Attrs: convergent mustprogress nocallback nofree nounwind willreturn
declare void @llvm.amdgcn.s.barrier() #3

; Function Attrs: convergent mustprogress nocallback nofree nounwind willreturn memory(none)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32 immarg, i32 immarg, i32 immarg, i1 immarg) #2

; Function Attrs: convergent nocallback nofree nounwind willreturn memory(none)
declare float @llvm.amdgcn.readlane.f32(float, i32) #4

attributes #0 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #1 = { mustprogress nofree norecurse nounwind willreturn "amdgpu-agpr-alloc"="0" "amdgpu-flat-work-group-size"="1,256" "amdgpu-no-completion-action" "amdgpu-no-default-queue" "amdgpu-no-dispatch-id" "amdgpu-no-dispatch-ptr" "amdgpu-no-flat-scratch-init" "amdgpu-no-heap-ptr" "amdgpu-no-hostcall-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-lds-kernel-id" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-queue-ptr" "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-x" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" "amdgpu-waves-per-eu"="1" "denormal-fp-math-f32"="ieee" "uniform-work-group-size"="false" }
attributes #2 = { convergent mustprogress nocallback nofree nounwind willreturn memory(none) }
attributes #3 = { convergent mustprogress nocallback nofree nounwind willreturn }
attributes #4 = { convergent nocallback nofree nounwind willreturn memory(none) }

!llvm.module.flags = !{!0, !1}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 1, !"amdhsa_code_object_version", i32 500}
